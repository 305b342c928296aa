"""Which template computes a kernel on a target.

The first of the catalog that does not refuse; where the time of several can be measured or
estimated, the fastest of these.
"""

from __future__ import annotations

from tvm.target import Target

from schedules.catalog import TEMPLATES
from schedules.cuda.choice import ESTIMATES, fastest
from schedules.spec import Spec
from schedules.template import Measured, ScheduleError, ScheduleTemplate, not_measured


def select(spec: Spec, target: Target, measured: Measured = not_measured) -> ScheduleTemplate:
    """Return the preferred template for ``spec`` on ``target``.

    Parameters
    ----------
    measured
        ``(template, spec)`` -> seconds on the target, None where they are not known.

    Raises
    ------
    ScheduleError
        With the reason of each template, if all refuse.
    """
    able, reasons = _able(spec, target)
    if not able:
        hint = "" if spec.is_static else "; build the network for a fixed batch, which has kernels"
        raise ScheduleError(
            f"no template for {spec} on {target}: {'; '.join(reasons) or 'none exists'}{hint}"
        )
    known = comparable(spec, target)
    return (
        TEMPLATES[fastest([each.name for each in known], spec, target, measured)]
        if known
        else able[0]
    )


def comparable(spec: Spec, target: Target) -> tuple[ScheduleTemplate, ...]:
    """Return the templates that compete by time for ``spec``; none where the order decides."""
    able, _ = _able(spec, target)
    if not able or able[0].name not in ESTIMATES:
        return ()
    return tuple(template for template in able if template.name in ESTIMATES)


def _able(spec: Spec, target: Target) -> tuple[list[ScheduleTemplate], list[str]]:
    """Return the templates that compute ``spec``, in order, and why the others do not."""
    reasons, able = [], []
    for template in TEMPLATES.values():
        if template.kind != spec.kind:
            continue
        reason = template.refuses(spec, target)
        if reason is None:
            able.append(template)
        else:
            reasons.append(f"{template.name}: {reason}")
    return able, reasons
