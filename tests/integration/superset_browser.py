"""Log in to Superset, open a dashboard, keep a picture of it and what its charts were answered. Runs in Superset's environment.

superset_browser.py ADDRESS PASSWORD SLUG PICTURE ANSWERS     ANSWERS: JSON, chart's name → {status, error, rows}
"""

import json
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WAIT_SECONDS = 240
WIDTH, TALL = 1600, 4600


def open_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={WIDTH},1000")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.set_page_load_timeout(WAIT_SECONDS)
    return browser


def log_in(browser: webdriver.Chrome, address: str, password: str) -> None:
    browser.get(f"{address}/login/")
    fields = WebDriverWait(browser, WAIT_SECONDS).until(
        lambda page: page.find_elements(By.CSS_SELECTOR, "input[type=password]") and page.find_elements(By.TAG_NAME, "input")
    )
    next(field for field in fields if "user" in (field.get_attribute("id") + field.get_attribute("name"))).send_keys("admin")
    browser.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys(password)
    browser.find_element(By.CSS_SELECTOR, "button[type=submit], input[type=submit]").click()
    WebDriverWait(browser, WAIT_SECONDS).until(lambda page: "/login" not in page.current_url)


def show(browser: webdriver.Chrome, url: str) -> None:
    """Open the dashboard so tall that every chart is in sight (Superset loads those only), and wait until all have drawn."""
    browser.get(url)
    WebDriverWait(browser, WAIT_SECONDS).until(lambda page: page.find_elements(By.CSS_SELECTOR, ".grid-container"))
    browser.set_window_size(WIDTH, TALL)
    quiet_since, deadline = None, time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(1)
        charts = browser.find_elements(By.CSS_SELECTOR, "[data-test=chart-container], .chart-container")
        loading = browser.find_elements(By.CSS_SELECTOR, ".loading, [data-test=loading-indicator]")
        if not charts or loading:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > 5:
            return
    sys.exit("the dashboard is still loading")


def answers_of(browser: webdriver.Chrome, address: str, slug: str) -> dict[str, dict[str, object]]:
    """What the charts' data requests were answered, from the browser's own record of the network."""
    script = "return fetch(arguments[0]).then(answer => answer.json())"
    charts = browser.execute_script(script, f"{address}/api/v1/dashboard/{slug}/charts")["result"]
    names = {chart["id"]: chart["slice_name"] for chart in charts}
    found = {}
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        response = message["params"].get("response", {})
        if message["method"] != "Network.responseReceived" or "/api/v1/chart/data" not in response.get("url", ""):
            continue
        given = json.loads(parse_qs(urlsplit(response["url"]).query).get("form_data", ["{}"])[0])
        body = browser.execute_cdp_cmd("Network.getResponseBody", {"requestId": message["params"]["requestId"]})["body"]
        result = (json.loads(body).get("result") or [{}])[0]
        found[names.get(given.get("slice_id"), "?")] = {
            "status": response["status"],
            "error": result.get("error") or (None if response["status"] == 200 else body[:500]),
            "rows": result.get("data"),
        }
    return found


def main(address: str, password: str, slug: str, picture: str, answers: str) -> None:
    browser = open_browser()
    try:
        log_in(browser, address, password)
        browser.get_log("performance")
        show(browser, f"{address}/superset/dashboard/{slug}/?standalone=2")
        Path(answers).write_text(json.dumps(answers_of(browser, address, slug)))
    finally:
        # of whatever there is to see, also when something is missing
        browser.save_screenshot(picture)
        browser.quit()


main(*sys.argv[1:6])
