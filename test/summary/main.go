// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command summary runs the suites of the Makefile and reports on them.
//
//	summary [-v] [-name SUITE -reports DIR] COMMAND [ARG...]
//	summary -total DIR SUITE...
//
// In the first form it runs a command such as `go test -json` and prints a line for
// each package, the output of failed tests, each skip with its reason, and the
// totals. With -v it also prints what passing tests logged. With -name it records
// the result in a directory.
//
// In the second form it prints the recorded results of all suites, with their time and that of the
// CPUs: a suite that builds takes twice its time of two CPUs, and one that waits takes little. A
// suite without a record has failed.
//
// A skip on Linux as root is a failure: everything can run there, so a skip means
// that a test got lost. A suite in which no test passed is a failure too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

func main() {
	verbose := flag.Bool("v", false, "print what passing tests logged")
	name := flag.String("name", "", "the suite's `name` in the record")
	reports := flag.String("reports", "", "the `directory` of the records")
	total := flag.String("total", "", "print the records in `directory` of the suites in the arguments")
	flag.Parse()
	err := errors.New("no command given")
	switch {
	case *total != "":
		err = printTotal(os.Stdout, *total, flag.Args())
	case flag.NArg() > 0:
		err = runSuite(flag.Args(), *name, *reports, *verbose)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

// runSuite runs command and records its result if reports is set. The error says why
// the suite failed.
func runSuite(command []string, name, reports string, verbose bool) error {
	start := time.Now()
	s := newSummary(os.Stdout, verbose)
	err := s.run(command)
	r := s.report(err, runtime.GOOS == "linux" && os.Geteuid() == 0)
	r.Name, r.Seconds, r.CPUSeconds = name, time.Since(start).Seconds(), s.cpu.Seconds()
	if reports != "" {
		err = r.write(reports)
	} else {
		err = nil
	}
	return errors.Join(r.failure(), err)
}

// run runs command and reads its output.
func (s *summary) run(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := s.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out) // the command must not block on a full pipe
	}
	err = errors.Join(readErr, cmd.Wait())
	if p := cmd.ProcessState; p != nil {
		s.cpu = p.UserTime() + p.SystemTime()
	}
	return err
}
