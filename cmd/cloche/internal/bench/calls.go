package bench

import (
	"context"
	"time"
)

// What is run, and what it prints.
const (
	onePlusOne = "print(1+1)"
	two        = "2\n"

	plotting = "matplotlib.pyplot"
	// withImports is the first call that a conversation makes who has work to do.
	withImports = "import pandas, matplotlib.pyplot\n" + onePlusOne
	hasImported = "import sys\nprint('" + plotting + "' in sys.modules and 'pandas' in sys.modules)"

	figure = `import io
import pandas
import matplotlib.pyplot as plt
table = pandas.DataFrame({"day": range(30), "rain": [day * day % 7 for day in range(30)]})
plt.plot(table["day"], table["rain"])
image = io.BytesIO()
plt.savefig(image, format="png")
print(image.getvalue()[1:4].decode())`
	png = "PNG\n"
)

// libraries says why rows that need them are left out, "" if they are not.
func libraries(b *bench) string { return b.unimportable }

// A measured does something once and returns how long it took.
type measured func(context.Context) (time.Duration, error)

// inTurns measures two things so many times, in turns, each once before that
// counts for nothing. There may be no peer.
func inTurns(ctx context.Context, rounds int, cloche, peer measured) (outcome, error) {
	var times [2][]time.Duration
	for round := range rounds + 1 {
		for i, one := range []measured{cloche, peer} {
			if one == nil {
				continue
			}
			took, err := one(ctx)
			if err != nil {
				return outcome{}, err
			}
			if round > 0 {
				times[i] = append(times[i], took)
			}
			pause(ctx)
		}
	}
	return outcome{cloche: Figure{Times: timesOf(times[0])}, peer: Figure{Times: timesOf(times[1])}}, nil
}

func freshCall(ctx context.Context, b *bench, s scale) (o outcome, err error) {
	server, err := b.serve(ctx, "")
	if err != nil {
		return outcome{}, err
	}
	defer server.close(&err)
	return inTurns(ctx, s.rounds, func(ctx context.Context) (time.Duration, error) {
		_, took, err := server.run(ctx, "", onePlusOne, two)
		return took, err
	}, b.bare(onePlusOne, two))
}

func freshFigure(ctx context.Context, b *bench, s scale) (o outcome, err error) {
	server, err := b.serve(ctx, "")
	if err != nil {
		return outcome{}, err
	}
	defer server.close(&err)
	if err := server.imported(ctx, ""); err != nil {
		return outcome{}, err
	}
	return inTurns(ctx, s.rounds, func(ctx context.Context) (time.Duration, error) {
		_, took, err := server.run(ctx, "", figure, png)
		return took, err
	}, b.bare(figure, png))
}

func firstCall(ctx context.Context, b *bench, s scale) (outcome, error) {
	f := firsts{b: b, pool: true}
	return f.measure(ctx, s.rounds)
}

func firstCallNoPool(ctx context.Context, b *bench, s scale) (outcome, error) {
	f := firsts{b: b, config: "[pool]\nwarm = 0\n"}
	return f.measure(ctx, s.rounds)
}

// firsts makes first calls of new conversations.
type firsts struct {
	b      *bench
	config string
	pool   bool // wait until it is filled
	server *server
	made   int // conversations of the present server
}

// perServer is how many conversations a server gets: so many have a sandbox at a
// time without anybody's being in the way of the next.
const perServer = 8

func (f *firsts) measure(ctx context.Context, rounds int) (o outcome, err error) {
	defer func() {
		if f.server != nil {
			f.server.close(&err)
		}
	}()
	return inTurns(ctx, rounds, f.one, f.b.bare(onePlusOne, two))
}

// one makes a first call, of a new server's if the present one had enough.
func (f *firsts) one(ctx context.Context) (took time.Duration, err error) {
	if f.server != nil && f.made == perServer {
		f.server.close(&err)
		if f.server = nil; err != nil {
			return 0, err
		}
	}
	if f.server == nil {
		if f.server, err = f.b.serve(ctx, f.config); err != nil {
			return 0, err
		}
		f.made = 0
		// The first of all finds a shim that is just starting.
		if _, _, err := f.server.run(ctx, "", onePlusOne, two); err != nil {
			return 0, err
		}
		pause(ctx)
	}
	if f.pool {
		if err := f.server.filled(ctx); err != nil {
			return 0, err
		}
	}
	f.made++
	_, took, err = f.server.run(ctx, newConversation, withImports, two)
	return took, err
}
