"""Blank out credentials and people: in texts for people broadly, in the values of landed rows by shapes that name nothing else.

Landed text keeps its meaning: a job that is called `sk-learn-training` stays so. What goes is user and password of an address,
`password=…`, `token: …` and their kind, the tokens whose shape is known (OpenAI, Anthropic, GitHub, GitLab, Hugging Face,
Slack, Stripe, AWS, Google, Databricks, NVIDIA, npm, PyPI, JWT, private keys), e-mail addresses, home folders, and in JSON
(labels, tags) the value of a key that names a credential or a user. People become the keyed hash of `GPU_NET_USER_KEY`,
`[user]` without one. Names that people give to jobs, namespaces, accounts and teams are no secret and stand as given.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl  # an agent that stays on a GPU host imports this module, and must not hold polars

REDACTED, SOMEBODY = "[redacted]", "[user]"
_PSEUDONYM = re.compile(r"user-[0-9a-f]{16}")

#: words before `=` or `:` after which a credential stands
_WORDS = r"api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?key)?|token|passw(?:or)?d|passphrase|credentials?|authorization"

#: for texts that people read: rather too much than too little
_SECRET = re.compile(
    rf"""(?ix)
      ( (?:{_WORDS})
        [\\"']* \s* [=:] \s* [\\"']* (?:bearer\s+|basic\s+)? | \bbearer\s+ ) [^\s"'\\,;|&]+
    | ( :// ) [^/\s:@"']* : [^/\s@"']+ (?=@)
    | \b (?:sk|pk|rk|ghp|gho|ghs|hf|glpat|xox[abpr]) [-_] [A-Za-z0-9_-]{{8,}}
    | \b AKIA[0-9A-Z]{{12,}} | \b AIza[0-9A-Za-z_-]{{20,}}
    | \b eyJ[A-Za-z0-9_-]{{8,}} (?:\.[A-Za-z0-9_-]+)+
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY----- [\s\S]*
    """
)

#: for values that name things: only what is a credential by its form
_CREDENTIAL = re.compile(
    rf"""(?x)
      ( (?i: (?:{_WORDS}) [\\"']* \s* [=:] \s* [\\"']* (?:bearer\s+|basic\s+)?+
        | \bbearer\s+ | (?<!\S)--[a-z-]{{0,30}}?(?:{_WORDS})\s+(?!-) ) )
      [^\s"'\\,;|&\[]+ [^\s"'\\,;|&]*
    | ( :// ) [^/\s@"']+ (?=@)
    | ( [?&] (?:sig|signature|X-Amz-Signature|X-Amz-Credential) = ) [^\s"'&]+
    | \b sk-(?:proj|ant|svcacct|admin|or|lf)-[A-Za-z0-9_-]{{16,}}
    | \b sk-(?=[A-Za-z0-9]*[0-9])(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{{20,}}
    | \b [sprk]k_(?:live|test)_[A-Za-z0-9]{{16,}}
    | \b gh[pousr]_[A-Za-z0-9]{{30,}} | \b github_pat_[A-Za-z0-9_]{{30,}} | \b glpat-[A-Za-z0-9_-]{{20,}}
    | \b hf_[A-Za-z0-9]{{30,}} | \b nvapi-[A-Za-z0-9_-]{{20,}} | \b dapi[0-9a-f]{{32}} \b
    | \b xox[abeoprs]-[A-Za-z0-9-]{{10,}} | \b npm_[A-Za-z0-9]{{36}} | \b pypi-[A-Za-z0-9_-]{{50,}}
    | \b (?:AKIA|ASIA)[0-9A-Z]{{16}} \b | \b AIza[0-9A-Za-z_-]{{35}} | \b ya29\.[0-9A-Za-z_-]{{20,}}
    | \b eyJ[A-Za-z0-9_-]{{8,}} (?:\.[A-Za-z0-9_-]+)+
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY----- [\s\S]*
    """
)
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![\w-])")
_HOME_FOLDER = re.compile(r"(?<![\w.\]-])(/(?:home|Users)/)([^/\s\"',;:]+)")

#: the last word of a key in labels or tags
_SECRET_KEY = re.compile(rf"(?i)(?:{_WORDS}|private[_-]?key)$")
_USER_KEY = re.compile(
    r"(?i)(?:^|[^a-z])(?:user|username|user[_-]name|user[_-]id|user[_-]?email|e-?mail|owner[_-]email|created[_-]?by|creator"
    r"|submitted[_-]?by|requested[_-]?by|requester)$"
)

#: a value without any of these holds nothing to blank out (for Rust's regex engine, which reads a column at once)
_SUSPECT = (
    r"[@=:{]|/home/|/Users/|(?i:bearer)|PRIVATE KEY|sk-|[sprk]k_|gh[pousr]_|github_pat|glpat-|hf_|nvapi-|dapi|xox|npm_|pypi-"
    r"|AKIA|ASIA|AIza|ya29|eyJ"
)


def redact(text: str, limit: int = 4000) -> str:
    """Blank out what looks like a key, a token or a password in a text for people; cut at `limit` characters."""
    return _SECRET.sub(lambda match: (match.group(1) or match.group(2) or "") + REDACTED, text[:limit])


def pseudonym(user: str) -> str | None:
    """A user name as a keyed hash (`GPU_NET_USER_KEY`); None without a key, so that no name is landed.

    What is a pseudonym already stays as it is, so that a landed row can be landed again.
    """
    if _PSEUDONYM.fullmatch(user):
        return user
    key = os.environ.get("GPU_NET_USER_KEY")
    if not key:
        return None
    return "user-" + hmac.new(key.encode(), user.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]


def mask(text: str) -> str:
    """The text without credentials and people; masking a masked text changes nothing."""
    text = _CREDENTIAL.sub(lambda match: (match.group(1) or match.group(2) or match.group(3) or "") + REDACTED, text)
    text = _EMAIL.sub(lambda match: _somebody(match.group()), text)
    return _HOME_FOLDER.sub(lambda match: match.group(1) + _somebody(match.group(2)), text)


def mask_json(text: str) -> str:
    """The same for a JSON document, where keys say what a value is; text that is no JSON is masked as text."""
    try:
        document = json.loads(text)
        masked = _masked(document)
        return text if masked == document else json.dumps(masked, ensure_ascii=False)
    except (ValueError, RecursionError):
        return mask(text)


def mask_column(values: pl.Series, *, is_json: bool) -> pl.Series:
    """A column of texts, each distinct suspect value masked once."""
    if values.null_count() == len(values):
        return values
    distinct = values.unique().drop_nulls()
    change = mask_json if is_json else mask
    suspects = distinct.filter(distinct.str.contains(_SUSPECT)).to_list()
    changed = {text: masked for text in suspects if (masked := change(text)) != text}
    return values.replace(list(changed), list(changed.values())) if changed else values


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        told = next((value[name] for name in ("key", "Key", "name", "Name") if isinstance(value.get(name), str)), "")
        return {
            mask(name): _masked_by_key(told if name in ("value", "Value") and told else name, inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return mask(value) if isinstance(value, str) else value


def _masked_by_key(key: str, value: Any) -> Any:
    if isinstance(value, dict | list):
        return _masked(value)
    if value in (None, "") or isinstance(value, bool):
        return value
    if _SECRET_KEY.search(key):
        return REDACTED
    if _USER_KEY.search(key):
        return _somebody(str(value))
    return mask(value) if isinstance(value, str) else value


def _somebody(user: str) -> str:
    return user if user == SOMEBODY else pseudonym(user) or SOMEBODY
