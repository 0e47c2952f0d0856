// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"io/fs"
	"os"
	"time"
)

// fileState is the result of stat(2) for a path. It detects whether the file has changed.
type fileState struct {
	path   string
	info   fs.FileInfo // nil if there is no file
	err    string      // the error of stat, if info is nil
	stable bool        // a later write changes the modification time
}

// mtimeGranularity is the coarsest modification time of a file system to expect. If a file
// was written within this time, another write may leave the same time.
const mtimeGranularity = time.Second

func statFile(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{path: path, err: err.Error()}
	}
	return fileState{path: path, info: info, stable: time.Since(info.ModTime()) > mtimeGranularity}
}

// unchanged reports whether the file is certainly the same as when s was made.
func (s fileState) unchanged() bool {
	info, err := os.Stat(s.path)
	if err != nil {
		return s.err == err.Error()
	}
	return s.stable && os.SameFile(info, s.info) && info.Size() == s.info.Size() &&
		info.Mode() == s.info.Mode() && info.ModTime().Equal(s.info.ModTime())
}
