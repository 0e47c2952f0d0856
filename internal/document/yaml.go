// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"sigs.k8s.io/yaml"
)

// JSON returns the YAML document text as JSON. It refuses a key that stands twice in a
// mapping. first is the number in its file of the line with which text begins; errors
// give the lines of the file.
func JSON(text []byte, first int) ([]byte, error) {
	js, err := yaml.YAMLToJSONStrict(text)
	return js, fileLines(err, first)
}

// LenientJSON is JSON for a file of one document, in which the last of several values
// of a key counts.
func LenientJSON(text []byte) ([]byte, error) {
	js, err := yaml.YAMLToJSON(text)
	return js, fileLines(err, 1)
}

// The forms of the errors of the YAML reader: one with or without a line, or a list.
var (
	oneError  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	listError = regexp.MustCompile(`(?m)^  line (\d+): (.*)$`)
)

// fileLines returns err with the lines of the file, each of its problems on its own.
func fileLines(err error, first int) error {
	if err == nil {
		return nil
	}
	var errs []error
	add := func(line, problem string) {
		if n, err := strconv.Atoi(line); err == nil {
			problem = fmt.Sprintf("line %d: %s", n+first-1, problem)
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
