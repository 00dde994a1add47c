package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloche.dev/cloche/policy/fault"
)

// A burst sums up calls that were made at once, round for round.
type burst struct {
	counts Counts
	times  []time.Duration // of calls that had a result
	walls  []time.Duration // one a round
}

// round makes calls at once, one in each conversation.
func (u *burst) round(ctx context.Context, s *server, conversations []string) {
	type one struct {
		answer
		took time.Duration
		err  error
	}
	calls := make([]one, len(conversations))
	var all sync.WaitGroup
	begin := time.Now()
	for i, id := range conversations {
		all.Go(func() {
			c := &calls[i]
			c.answer, c.took, c.err = s.call(ctx, id, onePlusOne)
		})
	}
	all.Wait()
	u.walls = append(u.walls, time.Since(begin))
	u.counts.Asked += len(calls)
	for i := range calls {
		c := &calls[i]
		u.counts.Longest = max(u.counts.Longest, Millis(c.took))
		if c.err == nil && c.isError && c.Error.Kind == fault.Busy {
			u.counts.Refused++
			continue
		}
		if c.err == nil {
			c.err = c.wrong(two)
		}
		if c.err != nil {
			u.counts.Failed++
			if u.counts.Failure == "" {
				u.counts.Failure = oneLine(c.err.Error())
			}
			continue
		}
		u.counts.Results++
		u.times = append(u.times, c.took)
	}
}

func (u *burst) figure() Figure {
	u.counts.Wall = Millis(Median(u.walls))
	return Figure{Times: timesOf(u.times), Counts: &u.counts}
}

// bareRound is a round of the peer.
func (u *burst) bareRound(ctx context.Context, b *bench, n int) error {
	times, wall, err := b.bareAtOnce(ctx, n, onePlusOne, two)
	if err != nil {
		return err
	}
	u.times, u.walls = append(u.times, times...), append(u.walls, wall)
	u.counts.Asked += n
	u.counts.Results += n
	u.counts.Longest = max(u.counts.Longest, Millis(slices.Max(times)))
	return nil
}

// newAtOnce makes first calls of new conversations at once, each round at a
// server that knows none, and runs as many bare Pythons at once.
func newAtOnce(ctx context.Context, b *bench, s scale) (outcome, error) {
	return newConversations(ctx, b, s, true)
}

// newAtOnceAlone is newAtOnce without the peer.
func newAtOnceAlone(ctx context.Context, b *bench, s scale) (outcome, error) {
	return newConversations(ctx, b, s, false)
}

func newConversations(ctx context.Context, b *bench, s scale, beside bool) (outcome, error) {
	var ours, theirs burst
	for range s.rounds {
		if err := ours.roundOfNew(ctx, b, s.conversations); err != nil {
			return outcome{}, err
		}
		if beside {
			if err := theirs.bareRound(ctx, b, s.conversations); err != nil {
				return outcome{}, err
			}
		}
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
	}
	o := outcome{cloche: ours.figure()}
	if beside {
		o.peer = theirs.figure()
	}
	return o, nil
}

// roundOfNew is a round of new conversations at a server of its own.
func (u *burst) roundOfNew(ctx context.Context, b *bench, n int) (err error) {
	server, err := b.serve(ctx, "")
	if err != nil {
		return err
	}
	defer server.close(&err)
	if _, _, err := server.run(ctx, "", onePlusOne, two); err != nil {
		return err
	}
	if b.unimportable == "" {
		if err := server.filled(ctx); err != nil {
			return err
		}
	}
	u.round(ctx, server, slices.Repeat([]string{newConversation}, n))
	return nil
}

// warmAtOnce makes calls of warm conversations at once, and looks at the
// server's memory before and after.
func warmAtOnce(ctx context.Context, b *bench, s scale) (o outcome, err error) {
	server, err := b.serve(ctx, fmt.Sprintf("[pool]\nmax = %d\n", s.conversations))
	if err != nil {
		return outcome{}, err
	}
	defer server.close(&err)
	ids, err := b.warm(ctx, server, s.conversations)
	if err != nil {
		return outcome{}, err
	}
	var before, ours, theirs burst
	before.round(ctx, server, ids) // what is made once, is there
	pause(ctx)
	m, err := newMemory(server)
	if err != nil {
		return outcome{}, err
	}
	for range s.rounds {
		ours.round(ctx, server, ids)
		pause(ctx)
		if err := theirs.bareRound(ctx, b, s.conversations); err != nil {
			return outcome{}, err
		}
	}
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	o = outcome{cloche: ours.figure(), peer: theirs.figure()}
	o.cloche.Sizes, err = m.sizes()
	return o, err
}

// warm starts conversations, each with a sandbox that has its imports. When
// memory gets short, that is an error.
func (b *bench) warm(ctx context.Context, s *server, n int) (ids []string, err error) {
	for range n {
		if err := enoughMemory(len(ids), n); err != nil {
			return nil, err
		}
		id, _, err := s.run(ctx, newConversation, onePlusOne, two)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if b.unimportable == "" {
		err = s.imported(ctx, ids...)
	}
	return ids, err
}
