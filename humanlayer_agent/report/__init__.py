"""Pages for people: what the audit log tells, what a replay found, what a diff changes. One file each, no network.

`facts` collects what the log says, `attention` what that asked of people, `integrity` whether it is what was written;
`charts` knows where marks stand, `audit_charts` what they show; `pages` gives all that to `templates`, which write the
markup and escape whatever comes from agents or from files. `as_data` is the same for programs.
"""
