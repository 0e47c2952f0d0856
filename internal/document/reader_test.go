// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// readLike reads the value of r with the methods for the type of want.
func readLike(r *document.Reader, want any) (got any, err error) {
	switch want := want.(type) {
	case map[string]any:
		m := map[string]any{}
		return m, r.Members(func(key string) (err error) {
			m[key], err = readLike(r, want[key])
			return err
		})
	case []any:
		list := []any{}
		return list, r.Items(func() error {
			item, err := readLike(r, want[min(len(list), len(want)-1)])
			list = append(list, item)
			return err
		})
	case string:
		return r.String()
	}
	return want, r.Skip()
}

// FuzzReader compares with the decoder.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `""`, `"a"`, `1e9`, ` { "a" : [ 1 , { "b" : "c" } , null ] , "d" : true } `,
		`"\"\\\/\b\f\n\r\t"`, `"\u00e9\ud83d\ude00\ud800"`, "\"\xff\"", `"é\n"`, `{"a\\":"\\\"","\u0061":2}`,
		"[\n[\t],\r{}]", `{"a":{"b":[{"c":"]}"}]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, js []byte) {
		var want any
		if document.DecodeStrict(js, &want) != nil {
			return
		}
		got, err := readLike(document.NewReader("", js), want)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %#v, %v; want %#v", js, got, err, want)
		}
	})
}

func TestReader_Errors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"b":["x",1]}`, "a.b[1]: is a number, must be a string"},
		{`{"b":["x",{}]}`, "a.b[1]: is a mapping, must be a string"},
		{`{"b":["x",null,true]}`, "a.b[2]: is a boolean, must be a string"},
		{`{"b":"x"}`, "a.b: is a string, must be a list"},
		{`{"b~/":["x",[]]}`, "a[b~/][1]: is a list, must be a string"},
		{`[]`, "a: is a list, must be a mapping"},
		{`null`, "<nil>"},
		{`{"b":[`, "jsontext: unexpected EOF within \"/b\" after offset 6"},
		{`{"b":["x"],}`, "jsontext: invalid character ',' at start of value after offset 10"},
		{``, "EOF"},
	} {
		r := document.NewReader("a", []byte(tt.text))
		err := r.Members(func(string) error {
			return r.Items(func() error {
				_, err := r.String()
				return err
			})
		})
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}
