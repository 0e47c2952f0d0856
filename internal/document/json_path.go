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

// level is an object or a list that encloses the current value of a walk.
type level struct {
	list  bool
	index int    // of the current item, in a list
	key   string // of the current value, in an object
	value bool   // the key has been read, its value is next
}

// pathAt returns the path of the last value of js that begins before offset, with indexes
// and map keys, and the same path without indexes.
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

// walk calls visit for each value of js, in order, until visit returns false. end is the
// offset of the last byte of a scalar, of the first byte of an object or a list. in holds
// the enclosing levels and is valid during the call only.
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

// next advances to token t and reports whether t is a key.
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

// pathOf returns the path of the current value, and the same path without indexes.
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
		case len(quoted) != len(l.key)+2: // the key has characters that need escaping
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
