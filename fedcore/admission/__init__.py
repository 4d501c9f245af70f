"""Admission rules: one file a method; the import is the registration."""

from fedcore.admission.base import Admission as Admission
from fedcore.admission.base import AdmissionConfig as AdmissionConfig
from fedcore.admission.base import AnyAdmission as AnyAdmission
from fedcore.admission.everything import Everything as Everything
from fedcore.admission.fleet_controller import FleetController as FleetController
