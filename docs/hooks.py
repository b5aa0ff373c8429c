"""What MkDocs does here beside its plugins: equations, links into the repository, decisions."""

import os
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)]*)?\))")
CITED = re.compile(r"(?<![\w\[`-])([Dd]ecisions?) (\d+)((?:(?:, | and | to )\d+)*)(?![\d\]])")


def equation(source, language, css_class, options, md, **kwargs):
    """A block of LaTeX as MathML, which browsers draw without a script."""
    return f'<div class="equation">{convert(source, display="block")}</div>'


def on_config(config):
    """Blocks marked ``math`` are equations; GitHub draws them too."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "math", "class": "math", "format": equation}]
    return config


def on_files(files, config):
    """Pictures of committed results are part of the site."""
    for path in sorted(ROOT.glob("results/**/*.png")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files outside ``docs/`` lead to the repository; decisions are linked by number."""
    source = page.file.src_uri
    here = Path(config.docs_dir, source).parent
    markdown = LINK.sub(lambda match: _outside(match, here, config), markdown)
    if Path(source).name == "decisions.md":
        return re.sub(r"(?m)^(\d+)\. \*\*", r'\1. <span id="decision-\1"></span>**', markdown)
    decisions = next(f.src_uri for f in files if Path(f.src_uri).name == "decisions.md")
    to = os.path.relpath(decisions, Path(source).parent)
    parts = re.split(r"(?ms)(^```.*?^```$|`[^`\n]*`)", markdown)  # code stays as it is
    parts[::2] = [CITED.sub(lambda match: _cited(match, to), part) for part in parts[::2]]
    return "".join(parts)


def _outside(match, here, config):
    path = (here / match[2]).resolve()
    if path.is_relative_to(Path(config.docs_dir).resolve()) or not path.exists():
        return match[0]
    inside = path.relative_to(ROOT)
    if path.suffix == ".png":
        to = os.path.relpath(inside, here.relative_to(config.docs_dir))
    else:
        to = f"{config.extra['repository']}/{'tree' if path.is_dir() else 'blob'}/main/{inside}"
    return match[1] + to + match[3]


def _cited(match, to):
    rest = re.sub(r"\d+", lambda number: f"[{number[0]}]({to}#decision-{number[0]})", match[3])
    return f"[{match[1]} {match[2]}]({to}#decision-{match[2]}){rest}"
