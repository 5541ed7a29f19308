"""LaTeX inside JSON: models write one backslash where JSON needs two.

`"\\frac"` with a single backslash is read by JSON as a form feed and "rac", `"\\times"` as a tab and "imes":
valid JSON, a destroyed formula. What stands after the backslash tells: a known command is LaTeX.
"""

import re

# Commands that begin with a letter JSON gives a meaning to (b, f, n, r, t, u).
_COMMANDS = frozenset(
    """
    bar beta begin bf big Big bigcap bigcup bigg binom bmod boldsymbol bot bowtie box boxed boxplus
    bullet backslash because bigl bigr Bigl Bigr biggl biggr bigtriangleup flat fbox forall frac frown
    footnotesize nabla natural ne nearrow neg neq newline nexists ngeq ni nleq nmid noindent nonumber
    not notin nu nparallel nsubseteq nwarrow nolimits nless ngtr normalsize rangle rbrace rbrack rceil
    Re ref relax rfloor rho right rightarrow Rightarrow rightharpoonup rightleftharpoons rlap rm root
    rvert rVert rtimes raisebox tan tanh tau tag text textbf textit textrm textstyle textsc texttt tfrac
    tbinom theta therefore thickspace thinspace tilde times to top triangle triangledown triangleleft
    triangleq triangleright tiny underbrace underline underset uparrow updownarrow uplus upsilon unit
    """.split()  # noqa: SIM905
)
_ESCAPE = re.compile(r"\\(\\|u[0-9a-fA-F]{4}|[A-Za-z]+|.|$)", re.S)


def double_latex_backslashes(text: str) -> str:
    """Return `text`, a JSON document, with single backslashes of LaTeX commands doubled."""

    def mend(match: re.Match[str]) -> str:
        rest = match.group(1)
        if rest == "\\" or rest in {'"', "/"}:
            return match.group(0)
        if re.fullmatch(r"u[0-9a-fA-F]{4}", rest):
            return match.group(0)
        if rest[:1] in "bfnrtu" and rest[:1] and rest not in _COMMANDS:
            # A real escape, as in "first line\nSecond line"; but \u without four digits can only be LaTeX.
            return match.group(0) if rest[0] != "u" else "\\" + match.group(0)
        return "\\" + match.group(0)

    return _ESCAPE.sub(mend, text)
