"""Install llama-cpp-python, showing that its compilation goes on; run by `make test`."""

import importlib.util
import subprocess
import sys
import threading
import time

PIN = "llama-cpp-python[server]"


def main() -> None:
    if importlib.util.find_spec("llama_cpp"):
        return
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["-c", "constraints.txt", PIN]
    started = time.monotonic()
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(20):
            minutes = (time.monotonic() - started) / 60
            print(f"compiling llama-cpp-python: {minutes:.1f} min (6 to 10 expected)", flush=True)

    print("compiling llama-cpp-python from its source package, once", flush=True)
    watcher = threading.Thread(target=beat)
    watcher.start()
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        finished.set()
        watcher.join()
    if code:
        sys.exit(f"llama-cpp-python did not install (pip ended with {code}); is gcc there?")


if __name__ == "__main__":
    main()
