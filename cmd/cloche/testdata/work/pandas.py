import io
import pandas as pd
import matplotlib.pyplot as plt

frame = pd.read_csv(io.StringIO("day,n\n2024-01-01,1\n2024-01-02,3\n"), parse_dates=["day"])
assert frame.set_index("day").resample("1D").sum().n.tolist() == [1, 3]
frame.plot(x="day", y="n", title="Größe")
plt.savefig("/tmp/plot.png")
plt.savefig("/tmp/plot.svg")
assert open("/tmp/plot.png", "rb").read(4) == b"\x89PNG"
print("well")
