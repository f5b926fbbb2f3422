"""How do test reports of CI systems show the answer? As JUnit XML: one test case for each model."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tuner.regressions.answer import CiAnswer, ModelAnswer

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(answer: CiAnswer) -> str:
    """Regressions are failures, what cannot be measured an error, what cannot be compared skipped."""
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        name="chimera ci",
        tests=str(len(answer.models)),
        failures=str(answer.count("regressed")),
        errors=str(answer.count("not_measurable")),
        skipped=str(answer.count("not_comparable")),
    )
    for model in answer.models:
        _case(suite, model)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, model: ModelAnswer) -> None:
    case = SubElement(suite, "testcase", classname="chimera.ci", name=_clean(model.name))
    lines = "\n".join(change.message for change in model.changes)
    failing = model.regressions or model.changes
    message = failing[0].message if failing else ""
    tags = {"regressed": "failure", "not_measurable": "error", "not_comparable": "skipped"}
    if model.status in tags:
        verdict = SubElement(case, tags[model.status], message=_clean(message))
        if model.status != "not_comparable":
            verdict.set("type", model.status)
        verdict.text = _clean(lines + (f"\nCause: {model.cause}" if model.cause else ""))
    elif lines:
        SubElement(case, "system-out").text = _clean(lines)


def _clean(text: str) -> str:
    """What XML 1.0 can hold."""
    return _NOT_XML.sub("?", text)
