"""The style of the pages: one sheet, inside of each page, so that nothing is loaded from anywhere."""

LIGHT = {
    "ink": "#1b2130",
    "soft": "#4d5768",
    "edge": "#7b8598",
    "line": "#dfe3ea",
    "paper": "#ffffff",
    "ground": "#f2f4f8",
    "accent": "#1f4fd1",
    "on-accent": "#ffffff",
    "wrong": "#b3261e",
    "wrong-ground": "#fdf2f1",
}
DARK = {
    "ink": "#e9ecf2",
    "soft": "#aeb7c6",
    "edge": "#7f8aa0",
    "line": "#2b3240",
    "paper": "#171b24",
    "ground": "#0e1118",
    "accent": "#8db2ff",
    "on-accent": "#0b1224",
    "wrong": "#ffa79e",
    "wrong-ground": "#2b1717",
}


def _css_variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_RULES = """
*{box-sizing:border-box}
body{margin:0;padding:clamp(0rem,4vw,3rem) clamp(0rem,4vw,1.5rem);background:var(--ground);color:var(--ink);
font:1.0625rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
overflow-wrap:anywhere}
main{max-width:38rem;margin:0 auto;padding:clamp(1.25rem,6vw,2.75rem);background:var(--paper);
border:1px solid var(--line);border-radius:.75rem;box-shadow:0 1px 2px rgb(0 0 0/.05),0 12px 32px -16px rgb(0 0 0/.18)}
h1{margin:0 0 .5rem;font-size:clamp(1.5rem,1.2rem + 1.6vw,2rem);line-height:1.2;letter-spacing:-.015em;
text-wrap:balance}
p{margin:0 0 1rem}
.intro,.hint{color:var(--soft)}
.intro{margin-bottom:1.75rem;white-space:pre-line}
.field{margin:0 0 1.5rem}
.field.is-wrong{padding-left:.875rem;border-left:.25rem solid var(--wrong)}
label{display:block;font-weight:600}
.mark{font-weight:400;color:var(--soft)}
.hint,.error{margin:.125rem 0 0;font-size:.9375rem}
.error{color:var(--wrong);font-weight:600}
input,select,textarea{display:block;width:100%;min-height:2.75rem;margin-top:.375rem;padding:.5rem .75rem;
font:inherit;color:inherit;background:var(--paper);border:1px solid var(--edge);border-radius:.5rem}
textarea{min-height:7.5rem;resize:vertical}
input[type=number],input[type=date]{max-width:14rem}
[aria-invalid=true]{border:2px solid var(--wrong)}
.box{display:grid;grid-template-columns:1.5rem 1fr;gap:0 .75rem;align-items:start}
.box input{width:1.5rem;height:1.5rem;min-height:0;margin:0;accent-color:var(--accent)}
.box label{font-weight:500}
.box .hint,.box .error{grid-column:2}
button{min-height:3rem;margin-top:.5rem;padding:.625rem 2rem;font:inherit;font-weight:600;color:var(--on-accent);
background:var(--accent);border:2px solid transparent;border-radius:.5rem;cursor:pointer}
button:hover{text-decoration:underline;text-underline-offset:.2em}
a{color:var(--accent);text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.summary{margin:0 0 1.75rem;padding:1rem 1.25rem;background:var(--wrong-ground);border:2px solid var(--wrong);
border-radius:.5rem}
.summary:focus{outline:none}
.summary h2{margin:0 0 .25rem;font-size:1.125rem}
.summary p{margin:0}
.summary ul{margin:0;padding-left:1.25rem}
.summary a{color:var(--wrong)}
.summary li+li{margin-top:.25rem}
.number{display:inline-block;padding:.125rem .5rem;background:var(--ground);border-radius:.375rem;
font:.9375rem/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
main>:last-child,form>:last-child{margin-bottom:0}
@media(max-width:30rem){body{padding:0;background:var(--paper)}main{border:0;border-radius:0;box-shadow:none}button{width:100%}}
"""

STYLE = (
    f":root{{color-scheme:light dark;{_css_variables(LIGHT)}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_css_variables(DARK)}}}}}{_RULES}"
)
