"""A process whose first thread has ended, while another goes on: the kernel calls it a zombie, and it runs all the same."""

PROGRAM = """
import ctypes, os, sys, threading, time

def work():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    with open("pid", "w") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(600)

threading.Thread(target=work).start()
exit_thread = {"x86_64": 60, "i686": 1, "armv7l": 1, "s390x": 1, "ppc64le": 1}.get(os.uname().machine, 93)
ctypes.CDLL(None).syscall(exit_thread, 0)
"""
"""Python that becomes one, and then writes its number into the file `pid`. It has no single quotes."""
