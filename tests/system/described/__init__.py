"""Does the service do what its OpenAPI document says? Settings and hooks of schemathesis, which asks."""
