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

// JSON converts the YAML document text to JSON. A duplicate key is an error. first is
// the line number in the file at which text begins; errors have line numbers of the file.
func JSON(text []byte, first int) ([]byte, error) {
	js, err := yaml.YAMLToJSONStrict(text)
	return js, withFileLines(err, first)
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

// withFileLines splits err into its problems and converts their line numbers to those of
// the file.
func withFileLines(err error, first int) error {
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
