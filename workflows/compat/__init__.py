"""Modules of another runtime that the tools and hooks of a package may import; ours do the same headless.

Only the files of a package see them, through the `__import__` of their own: no such name is ever in `sys.modules`.
"""
