import subprocess

subprocess.Popen(["sleep", "1000"])
