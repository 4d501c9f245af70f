"""The one config file of a federation."""

from fedrun.config.load import config_in as config_in
from fedrun.config.load import load_config as load_config
from fedrun.config.load import parse_config as parse_config
from fedrun.config.load import read_config as read_config
from fedrun.config.model import FederationConfig as FederationConfig
from fedrun.config.model import JournalConfig as JournalConfig
from fedrun.config.model import ServerConfig as ServerConfig
from fedrun.config.model import TLSConfig as TLSConfig
from fedrun.config.simulate import DevicesConfig as DevicesConfig
from fedrun.config.simulate import SimulateConfig as SimulateConfig
