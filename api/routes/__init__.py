"""Who answers which address? One module of thin handlers for each part of the service."""
