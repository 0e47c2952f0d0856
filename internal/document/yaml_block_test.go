// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import "testing"

// TestBlockJSON: the forms that kubectl prints do not need the libraries.
func TestBlockJSON(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"b: x y\na/b.c: http://x:80/\n", `{"a/b.c":"http://x:80/","b":"x y"}`},
		{"- args:\n  - a=b\n", `[{"args":["a=b"]}]`}, {"- --a=b\n- -v\n- /c\n", `["--a=b","-v","/c"]`},
		{"- -1\n", ""}, {"- --\n", ""}, {"--- a\n", ""},
		{"args:\n- a\n- |\n  b\n\n   c\nempty:\nlist: []\n", `{"args":["a","b\n\n c\n"],"empty":null,"list":[]}`},
		{"k:{\"uid\":\"a\"}:\n  .: {}\n", `{"k:{\"uid\":\"a\"}":{".":{}}}`},
		{"cpu: 100m\nip: 192.0.2.1\np: 8080\nq: \"8080\"\nr: 'true'\ns: true\n",
			`{"cpu":"100m","ip":"192.0.2.1","p":8080,"q":"8080","r":"true","s":true}`},
		{"a: {b: [c, 1.5], d: \"\\n\"}\n", `{"a":{"b":["c",1.5],"d":"\n"}}`},
		{"a: b # a comment\n", ""}, {"a: b\n  c\n", ""}, {"a: *b\n", ""}, {"a: é\n", ""}, {"a: b\na: c\n", ""},
		{"a:\tb\n", ""}, {"a: b", ""}, {"a: |\n\n  b\n", ""}, {"yes: a\n", ""}, {"# nothing\n", ""}, {"a\n", ""},
	} {
		if js, ok := blockJSON([]byte(tt.text)); string(js) != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: %s, %t, want %s", tt.text, js, ok, tt.want)
		}
	}
}

func FuzzJSON_Block(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nmetadata:\n  labels:\n    a/b: c d\n  name: a\nspec:\n" +
			"  containers:\n  - args:\n    - --a=b\n    name: c\n  - name: d\n",
		"a: |\n  b\n\n   c: d\n \nb: |-\n  x\n\n\nc:\n  - - a\n    - 'b'\n  -   k: \"c\"\n      l: {}\n",
		"a: -1\nb: 18446744073709551616\nc: 0x1f\nd: yes\ne: null\nf: ~\ng:\nh: 1.5\ni: []\nj: .5\n",
		"k:{\"uid\":\"a\"}:\n  .: {}\n  f:a: {}\n", "- a\n- b: c\n  d: e\n-\n- |\n x\n",
		"\"", "A\" :\nA00: A0\n", "a: b\na: c\n", "a: 'b' c\n", "a:\n b:\n   c\n  d: e\n",
		"a: {b: c, d: [e, *f]}\nb: \"\\u0041\\n\"\nc: 'it''s'\n", "a: b\n  c\n", "a: |\n", "a: |\n b\nc\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := blockJSON(text)
		if !ok {
			return
		}
		if want, err := libraryJSON(text, 1); err != nil || string(got) != string(want) {
			t.Errorf("%q\n got %s\nwant %s, %v", text, got, want, err)
		}
	})
}
