package bench

import "time"

// rows are all that is measured, in the order of the report. A thing that is to
// be measured from now on is one more value here.
var rows = []row{
	{
		name: "call", what: "fresh call, `print(1+1)`", peer: "bare `python3 -c`",
		quick: scale{rounds: 21}, full: scale{rounds: 200},
		bar:     Bar{Ratio: 0.7, Aim: 0.5},
		measure: freshCall,
	},
	{
		name: "figure", what: "fresh call that imports pandas and draws a figure", peer: "bare Python doing the same",
		quick: scale{rounds: 21}, full: scale{rounds: 200},
		bar:     Bar{Ratio: 0.2},
		without: libraries, measure: freshFigure,
	},
	{
		name: "first-call", what: "first call of a new conversation, with these imports, pool filled", peer: "bare `python3 -c 'print(1+1)'`",
		quick: scale{rounds: 21}, full: scale{rounds: 200},
		bar:     Bar{Ratio: 1.5},
		without: libraries, measure: firstCall,
	},
	{
		name: "first-call-no-pool", what: "the same with an empty pool", peer: "bare `python3 -c 'print(1+1)'`",
		quick: scale{rounds: 21}, full: scale{rounds: 200},
		bar:     Bar{Ratio: 5},
		without: libraries, measure: firstCallNoPool,
	},
	{
		name: "start", what: "container start and destroy, filter of system calls included", peer: "`runc run` of the same program, without a filter",
		quick: scale{rounds: 21}, full: scale{rounds: 200},
		bar:     Bar{Ratio: 1, Below: true},
		measure: startAndDestroy,
	},
	{
		name: "new-at-once", what: "%s new conversations at once", peer: "as many bare `python3 -c`",
		quick: scale{rounds: 1, conversations: 20}, full: scale{rounds: 3, conversations: 100},
		bar:     Bar{P99: Millis(3 * time.Second), NoneRefused: true},
		measure: newAtOnce,
	},
	{
		name: "flood", what: "%s new conversations at once",
		full:    scale{rounds: 1, conversations: 1000},
		bar:     Bar{Results: 100, Longest: Millis(10 * time.Second)},
		measure: newAtOnceAlone,
	},
	{
		name: "warm-at-once", what: "%s warm conversations at once", peer: "as many bare `python3 -c`",
		quick: scale{rounds: 3, conversations: 10}, full: scale{rounds: 20, conversations: 50},
		bar:     Bar{P99: Millis(400 * time.Millisecond), NoneRefused: true, Size: growth, Bytes: flat},
		measure: warmAtOnce,
	},
	{
		name: "idle-memory", what: "idle sandbox with its imports",
		quick: scale{rounds: 1}, full: scale{rounds: 1},
		bar:     Bar{Size: private, Bytes: 4_000_000},
		measure: idleMemory,
	},
	{
		name: "server-memory", what: "memory of a server that knows %s conversations",
		full:    scale{rounds: 1, conversations: 1000},
		bar:     Bar{Size: growth, Bytes: flat},
		measure: serverMemory,
	},
}

// flat is by how much the server's memory may grow, whatever a caller does.
const flat = 32_000_000
