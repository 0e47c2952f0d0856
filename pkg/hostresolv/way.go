// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links Linux follows for one path (MAXSYMLINKS).
const maxLinks = 40

// way is how a path leads to its file.
type way struct {
	// names are those whose change can make the path lead to another text: every
	// directory and link on the way, and the file, or what is missing in its
	// place. They are absolute, with no links before the last element, in the
	// order of the way.
	names []string
	end   string // the file; if something is missing on the way, the file as far as it is known
}

// follow walks path element by element, as the kernel does. So links to directories
// on the way are found as well, and ".." leaves the directory that a link leads to.
// Kubernetes mounts files behind such a link, "..data", and swaps it.
func follow(path string) way {
	const slash = string(filepath.Separator)
	if !filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			path = wd + slash + path // not Join, which would remove ".."
		}
	}
	var w way
	at, rest := root(path)
	for links := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, slash)
		switch element {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		name := filepath.Join(at, element)
		w.names = append(w.names, name)
		info, err := os.Lstat(name)
		if err != nil {
			w.end = filepath.Join(name, rest)
			return w
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = name
			continue
		}
		target, err := os.Readlink(name)
		if links++; links > maxLinks || err != nil {
			w.end = name
			return w
		}
		if filepath.IsAbs(target) {
			at, target = root(target)
		}
		rest = target + slash + rest
	}
	w.end = at
	return w
}

// root parts an absolute path into the directory at which it begins and the rest.
func root(path string) (at, rest string) {
	volume := filepath.VolumeName(path) // "" but for Windows
	return volume + string(filepath.Separator), path[len(volume):]
}
