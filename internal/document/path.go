// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// level is an object or a list that a walk through JSON is in.
type level struct {
	list  bool
	index int    // of the present item, in a list
	key   string // of the present value, in an object
	value bool   // the key was read, its value comes next
}

// pathAt returns the path of the value of js that begins last before offset, with
// indexes and the keys of maps, and the same without indexes.
func pathAt(js []byte, offset int64) (path, names string) {
	before := 0
	walk(js, func(end int64, _ []level) bool {
		if end < offset {
			before++
		}
		return end < offset
	})
	walk(js, func(_ int64, in []level) bool {
		if before--; before == 0 {
			path, names = pathOf(in)
		}
		return before > 0
	})
	return path, names
}

// walk calls visit for each value of js, in order, until it returns false: with the
// offset of the value's last byte, of an object's or a list's first, and the levels
// that it is in, which are visit's only for the time of the call.
func walk(js []byte, visit func(end int64, in []level) bool) {
	d := stdjson.NewDecoder(bytes.NewReader(js))
	d.UseNumber()
	var in []level
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		delim, _ := t.(stdjson.Delim)
		if delim == '}' || delim == ']' {
			in = in[:len(in)-1]
			continue
		}
		if len(in) > 0 && in[len(in)-1].next(t) {
			continue
		}
		if !visit(d.InputOffset()-1, in) {
			return
		}
		if delim != 0 {
			in = append(in, level{list: delim == '[', index: -1})
		}
	}
}

// next goes on to token t, and tells whether it is a key.
func (l *level) next(t stdjson.Token) (isKey bool) {
	switch {
	case l.list:
		l.index++
	case l.value:
		l.value = false
	default:
		l.key, l.value = t.(string), true
	}
	return l.value
}

// pathOf returns the path of the present value, and the same without indexes.
func pathOf(in []level) (path, names string) {
	var p, n strings.Builder
	for _, l := range in {
		if l.list {
			fmt.Fprintf(&p, "[%d]", l.index)
			continue
		}
		if n.Len() > 0 {
			n.WriteByte('.')
		}
		n.WriteString(l.key)
		switch quoted := strconv.Quote(l.key); {
		case len(quoted) != len(l.key)+2: // it would not be one word of one line
			p.WriteString("[" + quoted + "]")
		case strings.ContainsAny(l.key, "./[] "):
			p.WriteString("[" + l.key + "]")
		case p.Len() > 0:
			p.WriteString("." + l.key)
		default:
			p.WriteString(l.key)
		}
	}
	return p.String(), n.String()
}
