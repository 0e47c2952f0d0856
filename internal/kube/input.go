// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Stdin is the name of standard input in locations.
const Stdin = "stdin"

// Input are the manifests that a command reads.
type Input struct {
	// Paths are files, directories, patterns of file names as of [filepath.Match], and "-"
	// for standard input.
	Paths []string

	// Recursive includes the subdirectories of directories.
	Recursive bool

	// Strict makes unknown fields that do not affect DNS errors instead of a note.
	Strict bool

	// Namespace is that of objects without one. Read leaves them as they are.
	Namespace string
}

// Register adds the flags of commands that read manifests.
func (in *Input) Register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&in.Paths, "filename", "f", nil, "`FILE|DIR|-` with manifests, or a pattern such as 'deploy/*.yaml'; repeatable")
	flags.BoolVarP(&in.Recursive, "recursive", "R", false, "read the subdirectories of directories, too")
	flags.StringVarP(&in.Namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
}

// Check checks the input as it is set on the command line.
func (in Input) Check() error {
	if err := in.CheckNamespace(); err != nil {
		return err
	}
	if len(in.Paths) == 0 {
		return usage.Errorf("no manifests: name files, or set -f")
	}
	if slices.Contains(in.Paths, "") {
		return usage.Errorf("the name of a file is empty: want FILE, DIR or -")
	}
	return nil
}

// CheckNamespace is the part of Check about the namespace.
func (in Input) CheckNamespace() error {
	if fqdn.LabelProblems(in.Namespace) != nil {
		return usage.Errorf("--namespace %q: want a DNS label such as shop", in.Namespace)
	}
	return nil
}

// Read parses the manifests. Errors are joined; the valid objects are returned beside them. If ctx
// is done, it does not wait for the rest of a terminal or a FIFO.
func (in Input) Read(ctx context.Context, stdin io.Reader) (Manifest, error) {
	var all Manifest
	var errs []error
	for _, path := range in.Paths {
		files, notes, err := in.expand(path)
		errs = append(errs, err)
		all.Notes = append(all.Notes, notes...)
		for _, f := range files {
			m, err := f.read(ctx, stdin)
			errs = append(errs, err)
			all.Workloads = append(all.Workloads, m.Workloads...)
			all.Others = append(all.Others, m.Others...)
			all.Notes = append(all.Notes, m.Notes...)
			all.Unknown = append(all.Unknown, m.Unknown...)
		}
	}
	if in.Strict {
		for _, u := range all.Unknown {
			errs = append(errs, u.InputError())
		}
		all.Unknown = nil
	}
	return all, errors.Join(errs...)
}

// ReadPods is Read for manifests that must contain a pod or a pod template, unless they are
// empty.
func (in Input) ReadPods(ctx context.Context, stdin io.Reader) (Manifest, error) {
	m, err := in.Read(ctx, stdin)
	if err == nil {
		err = in.CheckPods(m)
	}
	return m, err
}

// CheckPods returns an error if m, read from in, has objects, but no pod and no pod
// template. If there is no object at all, m.Notes says so: the output of a chart whose
// objects are all switched off is not an error.
func (in Input) CheckPods(m Manifest) error {
	if len(m.Workloads) > 0 || len(m.Others) == 0 && len(m.Notes) > 0 {
		return nil
	}
	var kinds []string
	for _, o := range m.Others {
		kinds = append(kinds, o.Kind)
	}
	err := fmt.Errorf("no pod or pod template in %s", strings.Join(in.Paths, ", "))
	if len(kinds) == 0 {
		err = fmt.Errorf("%w: the List has no items: check what has written it, such as the namespace of kubectl get", err)
	} else {
		slices.Sort(kinds)
		err = fmt.Errorf("%w: found only %s", err, strings.Join(slices.Compact(kinds), ", "))
	}
	if slices.Contains(kinds, "KubeletConfiguration") {
		err = fmt.Errorf("%w: the flag for the configuration of a kubelet is --kubelet-config", err)
	}
	return err
}

// file is a file to read.
type file struct {
	path   string
	listed bool // found in a directory, which may have files that are not manifests
}

func (f file) read(ctx context.Context, stdin io.Reader) (Manifest, error) {
	if f.path == "-" {
		data, err := ReadLimited(ctx, stdin, MaxManifest+1)
		if err != nil {
			return Manifest{}, fmt.Errorf("%s: %w", Stdin, err)
		}
		return ParseManifest(Stdin, data)
	}
	data, err := untilDone(ctx, func() ([]byte, error) {
		r, err := os.Open(f.path)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(io.LimitReader(r, MaxManifest+1))
	})
	if err != nil {
		return Manifest{}, unreadable(f.path, err)
	}
	m, err := ParseManifest(f.path, data)
	if !f.listed {
		return m, err
	}
	var errs []error
	for _, e := range excerpt.Unjoin(err) {
		if input, ok := errors.AsType[*InputError](e); ok && errors.Is(e, ErrNotAnObject) { // such as the values of a chart
			at := input.Location
			at.Field = ""
			m.Notes = append(m.Notes, &InputError{Location: at, Err: errors.New("not a Kubernetes object, not read")})
		} else {
			errs = append(errs, e)
		}
	}
	return m, errors.Join(errs...)
}

// ReadLimited returns the first limit bytes of r. It returns when ctx is done, even if r is a
// terminal on which nothing is typed.
func ReadLimited(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	return untilDone(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit)) })
}

// untilDone returns the result of read, or the cause if ctx is done first: opening a FIFO and
// reading a terminal cannot be cancelled. The goroutine of a read that is not waited for ends with
// the process.
func untilDone(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
