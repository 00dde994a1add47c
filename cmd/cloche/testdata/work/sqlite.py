import sqlite3
import threading

first = sqlite3.connect("/work/data.db", timeout=30)
first.execute("pragma journal_mode=wal")
first.execute("create virtual table texts using fts5(body)")
first.commit()


def write(n):
    with sqlite3.connect("/work/data.db", timeout=30) as db:
        db.executemany("insert into texts values (?)", [("text %d of %d" % (i, n),) for i in range(100)])


threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert first.execute("select count(*) from texts where texts match 'text'").fetchone() == (400,)
assert first.execute("pragma integrity_check").fetchone() == ("ok",)
print("well")
