"""What can keep the service from starting.

ServiceError
├── SettingsError       a CHIMERA_* variable is not usable
├── BindError           the address would open a service without keys to a network
├── BackupError         a backup cannot be written, read or restored
└── DatabaseError       the database cannot be used
    └── SchemaError     its tables belong to another version
"""


class ServiceError(Exception):
    """The service cannot start; the message says what is wrong and what to do."""


class SettingsError(ServiceError):
    """A CHIMERA_* variable is not usable; the message names it."""


class BindError(ServiceError):
    """The address would open a service without keys to a network."""


class BackupError(ServiceError):
    """A backup cannot be written, read or restored; nothing was changed."""


class DatabaseError(ServiceError):
    """The database cannot be reached, opened or read."""


class SchemaError(DatabaseError):
    """The tables belong to another version of the service; the message says which command to run."""
