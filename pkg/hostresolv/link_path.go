// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the number of links that Linux follows in one path (MAXSYMLINKS).
const maxLinks = 40

// linkPath is a path with all its links resolved.
type linkPath struct {
	// names are the paths whose change can make the path resolve to another file: every
	// directory and link on the path, and the file, or the first one that is missing.
	// They are absolute, have no links before the last element, and are in the order in
	// which they are resolved.
	names []string
	end   string // the file; if a name is missing, the file as far as it can be resolved
}

// resolveLinks resolves path element by element, like the kernel. So it finds links to
// directories on the path too, and ".." leaves the directory to which a link leads.
// Kubernetes mounts the files of a ConfigMap behind such a link, "..data", and replaces it.
func resolveLinks(path string) linkPath {
	const slash = string(filepath.Separator)
	if !filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			path = wd + slash + path // not Join, which would remove ".."
		}
	}
	var p linkPath
	dir, rest := splitRoot(path)
	for links := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, slash)
		switch element {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		name := filepath.Join(dir, element)
		p.names = append(p.names, name)
		info, err := os.Lstat(name)
		if err != nil {
			p.end = filepath.Join(name, rest)
			return p
		}
		if info.Mode().Type() != fs.ModeSymlink {
			dir = name
			continue
		}
		target, err := os.Readlink(name)
		if links++; links > maxLinks || err != nil {
			p.end = name
			return p
		}
		if filepath.IsAbs(target) {
			dir, target = splitRoot(target)
		}
		rest = target + slash + rest
	}
	p.end = dir
	return p
}

// splitRoot splits an absolute path into its root directory and the rest.
func splitRoot(path string) (root, rest string) {
	volume := filepath.VolumeName(path) // "" except on Windows
	return volume + string(filepath.Separator), path[len(volume):]
}
