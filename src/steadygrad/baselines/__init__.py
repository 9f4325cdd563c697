"""The earlier solutions that Pascanu et al. 2013 discuss in section 3.1, each usable on its own."""

from . import penalty as penalty
from .echo_state import EchoState as EchoState
from .series import nrmse as nrmse
from .teacher_forcing import TeacherForced as TeacherForced
