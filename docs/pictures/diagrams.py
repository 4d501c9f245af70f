"""Three diagrams, each laid out by a short table of boxes and arrows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from fedview.report import theme
from tools import svg
from tools.svg import Point

Side = Literal["left", "right", "top", "bottom"]


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and a few lines below it."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: Sequence[str] = ()
    edge: str = ""  # a colour; usually that of all boxes

    def side(self, side: Side, shift: float = 0) -> Point:
        """Returns the middle of a side, or a place ``shift`` pixels beside it."""
        middle = Point(self.x + self.width / 2, self.y + self.height / 2)
        match side:
            case "left":
                return Point(self.x, middle.y + shift)
            case "right":
                return Point(self.x + self.width, middle.y + shift)
            case "top":
                return Point(middle.x + shift, self.y)
            case "bottom":
                return Point(middle.x + shift, self.y + self.height)

    def draw(self) -> Iterator[str]:
        """Yields the rectangle, and its words in the middle of it."""
        yield svg.rectangle(
            Point(self.x, self.y), self.width, self.height, "box", self.edge
        )
        middle = self.x + self.width / 2
        top = self.y + (self.height - svg.LINE * (1 + len(self.lines))) / 2
        down = top + svg.LINE - 5
        yield svg.text(
            Point(middle, down), self.title, anchor="middle", size=15, bold=True
        )
        for words in self.lines:
            down += svg.LINE
            yield svg.text(Point(middle, down), words, anchor="middle", kind="faint")


@dataclass(frozen=True)
class Panel:
    """A ground for several boxes, with its name in the upper or lower left corner."""

    x: float
    y: float
    width: float
    height: float
    name: str
    is_named_below: bool = False

    def draw(self) -> Iterator[str]:
        """Yields the ground and its name."""
        yield svg.rectangle(Point(self.x, self.y), self.width, self.height, "panel")
        down = self.height - 14 if self.is_named_below else 24
        yield svg.text(Point(self.x + 14, self.y + down), self.name, bold=True)


@dataclass(frozen=True)
class Arrow:
    """From one box to another that stands beside, above or below it."""

    start: str
    out: Side
    end: str
    into: Side
    label: str = ""
    shift: float = 0  # pixels from the middle of the two sides

    def draw(self, boxes: dict[str, Box]) -> Iterator[str]:
        """Yields the arrow, and its label beside it."""
        start = boxes[self.start].side(self.out, self.shift)
        end = boxes[self.end].side(self.into)
        is_level = self.out in ("left", "right")
        # Straight, so it keeps the place of its start on the axis that it crosses.
        end = Point(end.x, start.y) if is_level else Point(start.x, end.y)
        yield svg.arrow(start, end)
        middle = Point((start.x + end.x) / 2, (start.y + end.y) / 2)
        if self.label and is_level:
            yield svg.text(
                Point(middle.x, middle.y - 8), self.label, anchor="middle", kind="faint"
            )
        elif self.label:
            yield svg.text(Point(middle.x + 9, middle.y + 5), self.label, kind="faint")


def _draw(
    width: float,
    height: float,
    title: str,
    panels: Sequence[Panel],
    boxes: dict[str, Box],
    arrows: Sequence[Arrow],
    words: Sequence[str] = (),
) -> str:
    parts = [part for panel in panels for part in panel.draw()]
    parts += [part for box in boxes.values() for part in box.draw()]
    parts += [part for each in arrows for part in each.draw(boxes)]
    return svg.document(width, height, title, [*parts, *words])


# ------------------------------------------------------------------ one update's life

_COLUMN, _WIDE, _TALL = 153, 133, 92  # from box to box; the size of a box
_LEFT, _UPPER, _LOWER = 27, 54, 220

_ON_THE_DEVICE = (
    ("pull", "1  Pull", ("asks for work,", "gets the model")),
    ("train", "2  Train", ("a few steps on", "its own data")),
    ("compress", "3  Compress", ("with what earlier", "messages had to", "leave out")),
    ("save", "4  Save", ("on its disk", "before it is sent")),
    ("push", "5  Push", ("the same bytes,", "until there is", "a verdict")),
)
_ON_THE_SERVER = (  # under those of the device, so from its end to its beginning
    ("patch", "10  Patch", ("what changed,", "compressed")),
    ("version", "9  Version", ("the model moves", "by their weighted", "mean")),
    ("buffer", "8  Buffer", ("waits until there", "are enough")),
    ("journal", "7  Journal", ("on the disk", "before it is", "answered")),
    ("verdict", "6  Verdict", ("if it is late it", "weighs less, and", "still counts")),
)


def life_of_an_update() -> str:
    """Returns the way of an update from a device into the model, and back again."""
    boxes = {
        name: Box(_LEFT + column * _COLUMN, y, _WIDE, _TALL, title, lines, edge)
        for row, y, edge in (
            (_ON_THE_DEVICE, _UPPER, theme.BLUE),
            (_ON_THE_SERVER, _LOWER, theme.GREEN),
        )
        for column, (name, title, lines) in enumerate(row)
    }
    client = ["pull", "train", "compress", "save", "push"]
    server = ["verdict", "journal", "buffer", "version", "patch"]
    arrows = [
        *(Arrow(a, "right", b, "left") for a, b in pairwise(client)),
        *(Arrow(a, "left", b, "right") for a, b in pairwise(server)),
        Arrow("push", "bottom", "verdict", "top"),
        Arrow("journal", "top", "save", "bottom", "verdict"),
        Arrow("patch", "top", "pull", "bottom", "to all that pull"),
    ]
    panels = [
        Panel(12, 14, 776, 148, "On a device"),
        Panel(12, 204, 776, 148, "On the server", is_named_below=True),
    ]
    title = "The life of one update, from a device into the model and back to devices"
    return _draw(800, 366, title, panels, boxes, arrows)


# --------------------------------------------------------------- the server's threads


def threads_of_the_server() -> str:
    """Returns the event loop, the core thread, the disk, and what travels between."""
    usual = partial(Box, width=214, height=92)
    boxes = {
        "in": usual(
            28,
            58,
            title="Events come in",
            lines=("gRPC calls, checked", "and read; timers that", "have run out"),
        ),
        "waiting": usual(
            28,
            196,
            title="Calls that wait",
            lines=("a pull waits for work,", "a push for its verdict"),
        ),
        "out": usual(
            28,
            334,
            title="Actions go out",
            lines=("verdicts and models to", "the calls that wait;", "timers are set"),
        ),
        "batch": usual(
            336,
            58,
            title="Batch",
            lines=("all events that came", "while the disk was busy"),
        ),
        "coordinator": usual(
            336,
            196,
            title="Coordinator",
            lines=("one event at a time;", "makes records, actions"),
            edge=theme.BLUE,
        ),
        "commit": usual(
            336,
            334,
            title="Group commit",
            lines=(
                "writes all records in one",
                "go, and only then lets",
                "the actions out",
            ),
        ),
        "journal": usual(
            640,
            334,
            width=144,
            title="Journal",
            lines=("on the disk", "for good"),
            edge=theme.GREEN,
        ),
        "views": usual(
            640,
            176,
            width=144,
            height=112,
            title="Views",
            lines=(
                "live view, status,",
                "metrics, log lines;",
                "they show what is",
                "on the disk",
            ),
        ),
    }
    arrows = [
        Arrow("in", "right", "batch", "left", "events"),
        Arrow("in", "bottom", "waiting", "top"),
        Arrow("out", "top", "waiting", "bottom"),
        Arrow("batch", "bottom", "coordinator", "top"),
        Arrow("coordinator", "bottom", "commit", "top"),
        Arrow("commit", "right", "journal", "left", "records"),
        Arrow("commit", "left", "out", "right", "actions"),
        Arrow("journal", "top", "views", "bottom", "records"),
    ]
    panels = [
        Panel(12, 14, 246, 432, "Event loop"),
        Panel(320, 14, 246, 432, "Core thread"),
    ]
    title = "The two threads of the server, and the journal between event and answer"
    return _draw(800, 460, title, panels, boxes, arrows)


# ------------------------------------------------------------------ one core, its users


def drivers_around_the_core() -> str:
    """Returns the simulator, the deployment and Flower around the same core."""
    driver = partial(Box, y=20, width=240, height=116)
    part = partial(Box, y=256, width=226, height=92, edge=theme.BLUE)
    drivers = [
        driver(
            20,
            title="Simulator",
            lines=(
                "fedsim: a virtual clock,",
                "and thousands of clients",
                "in one process",
            ),
        ),
        driver(
            280,
            title="Deployment",
            lines=(
                "fedserver and fedclient:",
                "gRPC, the real clock, and",
                "devices with own disks",
            ),
        ),
        driver(
            540,
            title="Flower",
            lines=(
                "the strategy Latecomer:",
                "SuperLink, SuperNodes",
                "and the app you have",
            ),
        ),
    ]
    parts = [
        part(
            42,
            title="Coordinator",
            lines=("who trains, what an", "update weighs, when a", "version is made"),
        ),
        part(
            287,
            title="Participant",
            lines=(
                "a client's side: message,",
                "memory, and what",
                "a verdict changes",
            ),
        ),
        part(
            532,
            title="Methods",
            lines=("aggregators, codecs,", "staleness, client", "algorithms, recipes"),
        ),
    ]
    core = Panel(
        20, 212, 760, 152, "One core: fedcore knows no clock, network, disk or thread"
    )
    words = [
        part
        for box in drivers
        for shift in (-30, 30)
        for part in _exchange(box.side("bottom", shift), core.y, is_down=shift < 0)
    ]
    below = "With equal order of arrival all three reach the same model, bit for bit."
    words.append(svg.text(Point(400, 392), below, anchor="middle", kind="faint"))
    title = "Simulator, deployment and Flower drive the same core"
    boxes = {box.title: box for box in (*drivers, *parts)}
    return _draw(800, 410, title, [core], boxes, [], words)


def _exchange(above: Point, y: float, *, is_down: bool) -> Iterator[str]:
    """Yields the arrow of events to the core, or that of actions back to a driver."""
    below = Point(above.x, y)
    middle = (above.y + y) / 2 + 5
    if is_down:
        yield svg.arrow(above, below)
        yield svg.text(Point(above.x - 9, middle), "events", anchor="end", kind="faint")
    else:
        yield svg.arrow(below, above)
        yield svg.text(Point(above.x + 9, middle), "actions", kind="faint")
