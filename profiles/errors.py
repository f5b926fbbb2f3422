"""What can be wrong with a document.

DocumentError
├── MalformedDocumentError   not JSON, too large, too deep, or not what the schema asks for
└── UnknownNameError         no shipped document of that name
"""


class DocumentError(ValueError):
    """A document cannot be used; the message says what is wrong, the numbers, and what to do."""


class MalformedDocumentError(DocumentError):
    """A document is not JSON, too large, too deep, or not what its schema asks for."""


class UnknownNameError(DocumentError):
    """No shipped document has that name; the message names the closest ones."""
