"""Conditions under which a device trains: idle, charging, unmetered, at night."""
