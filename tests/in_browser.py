"""A page in a browser window of some width."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def opened(browser: Any, path: Path, width: int) -> Any:
    mobile = width < 500
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
    )
    browser.get(path.as_uri())
    return browser
