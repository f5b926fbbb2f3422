"""Remember and show: the service, its database and its reports."""
