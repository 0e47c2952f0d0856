// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxfile

import (
	"bytes"
	"slices"
)

// step is a write: bytes and their offset in the file.
type step struct {
	at   int
	text []byte
}

// steps returns the writes that replace old by text, which is not shorter.
//
// A reader may get any mixture of the bytes before and after a write. So that no mixture has a line
// that neither text has, each line that differs is first made a comment, then overwritten, and then
// becomes a line again; all other lines stay, and a nameserver is among them whenever old is a text
// of this package. From the first step to the last but one the file ends with unfinishedLine: after a
// kill the text is known to be incomplete.
func steps(old, text []byte) (list []step) {
	end := len(text) - len(unfinishedLine)
	current, target := slices.Clone(old), slices.Clone(text)
	copy(target[end:], unfinishedLine)
	origin := OriginOf(old)
	switch n := len(text) - len(old); {
	case n > len(unfinishedLine):
		if len(old) > 0 && old[len(old)-1] != '\n' {
			current = append(current, '\n')
		}
		current = append(appendPadding(current, end-len(current)), unfinishedLine...)
		list = append(list, step{len(old), current[len(old):]})
	case n == 0 && (origin == Written || origin == Restored):
		copy(current[end:], unfinishedLine)
		list = append(list, step{end, current[end:]})
	default:
		current = append(current, bytes.Repeat([]byte{'\n'}, n)...)
	}
	for _, next := range withSpareServer(current, target) {
		list = append(list, changeLines(current[:end], next[:end])...)
		current = next
	}
	return append(list, step{end, text[end:]})
}

// withSpareServer returns the texts to write one after another, of which target is the last. If the only
// nameserver changes, the new one is in the last slot of nameservers while the line in the first slot is
// missing.
func withSpareServer(current, target []byte) [][]byte {
	const spare, end = (serverSlots - 1) * slot, serverSlots * slot
	for _, text := range [][]byte{current, target} {
		if len(text) < end || text[spare-1] != '\n' || text[end-1] != '\n' {
			return [][]byte{target}
		}
	}
	server := target[:slot]
	if !bytes.HasPrefix(server, []byte("nameserver ")) || server[slot-1] != '\n' || bytes.Equal(server, current[:slot]) ||
		bytes.Contains(target[slot:end], []byte("nameserver ")) {
		return [][]byte{target}
	}
	first, second := slices.Clone(current), slices.Clone(target)
	copy(first[spare:], server)
	copy(second[spare:], server)
	return [][]byte{first, second, target}
}

// changeLines returns the writes that change the lines of a text to those of another one with the same
// size, the last line first. A comment follows both.
func changeLines(current, target []byte) (list []step) {
	starts := commonStarts(current, target)
	for i := len(starts) - 2; i >= 0; i-- {
		from, to := starts[i], starts[i+1]
		state := current[from:to]
		if bytes.Equal(state, target[from:to]) {
			continue
		}
		// One line: after a newline inside, a mixture could have the end of another line.
		blank := bytes.Repeat([]byte{'#'}, to-from)
		if i < len(starts)-2 {
			blank[len(blank)-1] = '\n'
		}
		for _, next := range [][]byte{asComment(state), blank, asComment(target[from:to]), target[from:to]} {
			if !bytes.Equal(next, state) {
				list = append(list, step{from, next})
				state = next
			}
		}
	}
	return list
}

// commonStarts returns the offsets at which both texts have the start of a line, and their length.
func commonStarts(a, b []byte) []int {
	starts := []int{0}
	for i := 1; i < len(a); i++ {
		if a[i-1] == '\n' && b[i-1] == '\n' {
			starts = append(starts, i)
		}
	}
	return append(starts, len(a))
}

// asComment returns text with each line made a comment by its first byte. Empty lines stay.
func asComment(text []byte) []byte {
	text = slices.Clone(text)
	for i := range text {
		if text[i] != '\n' && (i == 0 || text[i-1] == '\n') {
			text[i] = '#'
		}
	}
	return text
}
