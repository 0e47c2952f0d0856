// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// JSON converts the YAML document text to JSON. A key that occurs twice in a mapping is an
// error; one that overrides a key of a merge ("<<") is not. A second value after the first,
// such as a second mapping in flow style, is an error: it would be dropped. Without a value
// the result is "null". first is the line number in the file at which text begins; a
// *LineError has the line number of the file.
func JSON(text []byte, first int) ([]byte, error) {
	root, err := parseOne(text, first)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return []byte("null"), nil
	}
	var problems []error
	checkKeys(root, first, &problems)
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	js, err := yaml.YAMLToJSON(text)
	return js, withFileLines(err, first)
}

// parseOne returns the value of a document that begins in line first of a file, nil if it has
// none.
func parseOne(text []byte, first int) (*yamlv3.Node, error) {
	d := yamlv3.NewDecoder(bytes.NewReader(text))
	var document, second yamlv3.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		if invalid := checkUTF8(text, first); invalid != nil {
			return nil, invalid
		}
		return nil, withFileLines(err, first)
	}
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
		return document.Content[0], nil
	case err != nil: // the decoder counts the line of its parser's errors from 0
		_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &second.Line)
		second.Line++
	}
	return nil, &LineError{second.Line + first - 1, "a second value: separate documents with a line ---"}
}

// checkUTF8 returns an error with the line of the first octet that is not UTF-8: that of the decoder
// names no line.
func checkUTF8(text []byte, first int) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return &LineError{first + i, "not UTF-8: save the file as UTF-8"}
		}
	}
	return nil
}

// checkKeys appends an error for each key of n that occurs twice in its mapping, and for
// each that is not a scalar. JSON has strings as keys, so 1 and "1" are the same one.
func checkKeys(n *yamlv3.Node, first int, problems *[]error) {
	if n.Kind != yamlv3.MappingNode {
		for _, c := range n.Content {
			checkKeys(c, first, problems)
		}
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yamlv3.AliasNode {
			key = key.Alias
		}
		line := n.Content[i].Line + first - 1
		switch {
		case key.Kind != yamlv3.ScalarNode:
			*problems = append(*problems, &LineError{line, "a key is a mapping or a list, must be a string"})
		case seen[key.Value]:
			*problems = append(*problems, &LineError{line, fmt.Sprintf("key %q already set in map", key.Value)})
		}
		seen[key.Value] = true
		checkKeys(n.Content[i+1], first, problems)
	}
}

// LenientJSON is JSON for a file of one document. The last value of a duplicate key wins.
func LenientJSON(text []byte) ([]byte, error) {
	js, err := yaml.YAMLToJSON(text)
	return js, withFileLines(err, 1)
}

// The formats of the YAML decoder's errors: one error with or without a line, or a list.
var (
	oneError  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	listError = regexp.MustCompile(`(?m)^  line (\d+): (.*)$`)
)

// LineError is an error in a line of a file.
type LineError struct {
	Line    int // 1 is the first
	Problem string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// withFileLines splits err into its problems and converts their line numbers to those of
// the file.
func withFileLines(err error, first int) error {
	if err == nil {
		return nil
	}
	var errs []error
	add := func(line, problem string) {
		if n, err := strconv.Atoi(line); err == nil {
			errs = append(errs, &LineError{n + first - 1, problem})
			return
		}
		errs = append(errs, errors.New(problem))
	}
	for _, m := range listError.FindAllStringSubmatch(err.Error(), -1) {
		add(m[1], m[2])
	}
	if errs == nil {
		m := oneError.FindStringSubmatch(err.Error())
		if m == nil {
			return err
		}
		add(m[1], m[2])
	}
	return errors.Join(errs...)
}
