
"use strict";
(() => {
  const themes = {/* themes */};
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia(`(max-width: ${0 /* narrow */}px)`);
  // Some versions of plotly.js offer to send a chart to a cloud; this page never does.
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    typesetMath: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const figures = [...document.querySelectorAll("figure.plot")].map((holder) => ({
    place: holder.querySelector("div"),
    content: JSON.parse(holder.querySelector("script").textContent),
  }));

  function draw() {
    const template = themes[dark.matches ? "dark" : "light"];
    for (const { place, content } of figures) {
      const layout = narrow.matches ? content.narrow : content.layout;
      place.style.height = `${layout.height}px`;
      Plotly.react(place, content.data, { ...layout, template }, {
        ...config,
        displayModeBar: !narrow.matches && "hover",
      });
    }
  }
  if (figures.length) {
    draw();
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
    // What is folded has no width until it is opened.
    for (const part of document.querySelectorAll("details"))
      part.addEventListener("toggle", () => {
        for (const place of part.querySelectorAll("figure.plot > div"))
          Plotly.Plots.resize(place);
      });
  }

  for (const button of document.querySelectorAll("button.copy"))
    button.addEventListener("click", async () => {
      const pre = button.parentElement.querySelector("pre");
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
})();
