raise ValueError("not\ntoday")
