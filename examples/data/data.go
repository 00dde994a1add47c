// Package data carries the public data set that the demonstration and the
// examples work on: four years of daily weather in Seattle. README.md beside it
// names its source, its licence and its columns.
package data

import _ "embed"

// SeattleWeatherName is the file name under which the data set is known.
const SeattleWeatherName = "seattle-weather.csv"

// SeattleWeather is the data set as CSV: a header line, then one row a day.
//
//go:embed seattle-weather.csv
var SeattleWeather string
