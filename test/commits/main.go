// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command commits checks the messages of the commits since the last tag, or since the
// rule exists: the subject is `package: verb object` in at most 72 characters, a body
// says why, and nothing is left to be squashed. Merge commits are exempt.
//
// In a clone without the first of these commits, and in a source archive, it checks nothing
// and says so: a shallow clone may begin with any commit, also an older one.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"unicode/utf8"
)

// baseCommit is the last commit before the rule.
const baseCommit = "128efcc47a30ef617cc4ef3090efcb4610c19e09"

const maxSubject = 72

// subject matches one or more packages or files, and what the commit does.
var subject = regexp.MustCompile(`^[A-Za-z0-9_./-]+(, [A-Za-z0-9_./-]+)*: \S`)

func main() {
	commits, note, err := history()
	if err == nil {
		for _, c := range commits {
			err = errors.Join(err, c.check())
		}
	}
	if note != "" {
		fmt.Println("commits:", note)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("commits:", len(commits), "checked")
}

// commit is what the rule is about.
type commit struct {
	hash    string
	parents int
	message string
}

// check returns all that is wrong with a commit.
func (c commit) check() error {
	if c.parents > 1 {
		return nil
	}
	first, rest, _ := strings.Cut(c.message, "\n")
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("commit %.8s %q: %s", c.hash, first, fmt.Sprintf(format, args...)))
	}
	if n := utf8.RuneCountInString(first); n > maxSubject {
		fail("the subject has %d characters, want at most %d", n, maxSubject)
	}
	if strings.HasPrefix(first, "fixup!") || strings.HasPrefix(first, "squash!") || strings.HasPrefix(first, "amend!") {
		fail("squash it into the commit that it corrects")
	} else if !subject.MatchString(first) {
		fail("want a subject such as pkg/policy: verb object")
	}
	if rest != "" && !strings.HasPrefix(rest, "\n") {
		fail("want an empty line after the subject")
	}
	if strings.TrimSpace(rest) == "" {
		fail("want a body that says why")
	}
	return errors.Join(errs...)
}

// history returns the commits to check. The note says what is missing.
func history() (commits []commit, note string, err error) {
	if _, err := git("rev-parse", "--git-dir"); err != nil {
		return nil, "no git history: " + err.Error(), nil
	}
	since, err := git("describe", "--tags", "--abbrev=0")
	if err != nil {
		since = baseCommit
	}
	if _, err := git("cat-file", "-e", since+"^{commit}"); err != nil {
		return nil, fmt.Sprintf("the history since %.8s is not there", since), nil
	}
	list, err := git("rev-list", "HEAD", "^"+since)
	if err != nil {
		return nil, note, err
	}
	for _, hash := range strings.Fields(list) {
		// The parents are those of the object: rev-list does not show those that a shallow
		// clone lacks.
		object, err := git("cat-file", "commit", hash)
		if err != nil {
			return nil, note, err
		}
		commits = append(commits, parseCommit(hash, object))
	}
	return commits, note, nil
}

// parseCommit reads a commit object: headers, an empty line, the message.
func parseCommit(hash, object string) commit {
	headers, message, _ := strings.Cut(object, "\n\n")
	return commit{hash, strings.Count("\n"+headers, "\nparent "), strings.TrimRight(message, "\n")}
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
