package config

import "unicode/utf8"

// cut shortens what comes from the file to what a message can bear.
func cut(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
