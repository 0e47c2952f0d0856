// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
)

// corefileSource is the Corefile of the cluster DNS.
type corefileSource struct {
	config   *corev1.ConfigMap
	text     string
	blocks   []corefile.Block
	problems []corefile.Problem
	imported map[string]string // texts, by CONFIGMAP/KEY
	partial  bool              // files that are not known add to it
	ignored  []mountedFile     // the files beside the imported ones that no import matches
}

// mountedFile is a key of a ConfigMap, and its path in the pods of the cluster DNS.
type mountedFile struct{ path, name, text string }

// mountedFiles returns the files that a pod mounts from ConfigMaps, in the order of their paths.
func (v *view) mountedFiles(p *corev1.Pod) (files []mountedFile) {
	configs := map[string]*corev1.ConfigMap{} // by volume
	for _, volume := range p.Spec.Volumes {
		if volume.ConfigMap != nil {
			configs[volume.Name] = v.configMap(types.NamespacedName{Namespace: p.Namespace, Name: volume.ConfigMap.Name})
		}
	}
	for _, container := range p.Spec.Containers {
		for _, m := range container.VolumeMounts {
			c := configs[m.Name]
			if c == nil {
				continue
			}
			for key, text := range c.Data {
				files = append(files, mountedFile{path.Join(m.MountPath, key), c.Name + "/" + key, text})
			}
		}
	}
	slices.SortFunc(files, func(a, b mountedFile) int { return strings.Compare(a.path, b.path) })
	return files
}

// parse reads the Corefile, and what it imports from the ConfigMaps that a pod mounts. Other files are not known, such
// as those of the image.
func (c *corefileSource) parse(files []mountedFile) {
	c.imported = map[string]string{}
	root, directories := "", map[string]bool{}
	for _, f := range files {
		if f.name == c.config.Name+"/Corefile" {
			root = path.Dir(f.path)
		}
	}
	load := func(_, pattern string) (found []corefile.File, _ error) {
		if !path.IsAbs(pattern) {
			pattern = path.Join(root, pattern)
		}
		directories[path.Dir(pattern)] = true
		for _, f := range files {
			if ok, err := path.Match(pattern, f.path); err == nil && ok {
				c.imported[f.name] = f.text
				found = append(found, corefile.File{Name: f.name, Text: f.text})
			}
		}
		c.partial = c.partial || len(found) == 0
		return found, nil
	}
	c.blocks, c.problems = corefile.Source{Import: load}.Parse(corefile.File{Text: c.text})
	c.ignored = slices.DeleteFunc(files, func(f mountedFile) bool {
		_, ok := c.imported[f.name]
		return ok || !directories[path.Dir(f.path)] || strings.HasPrefix(f.name, c.config.Name+"/")
	})
	c.partial = c.partial || len(c.find("import")) > 0
}

// located is a directive and the block in which it is.
type located struct {
	block *corefile.Block
	corefile.Directive
}

func (c *corefileSource) find(name string) (list []located) {
	for i := range c.blocks {
		for _, d := range c.blocks[i].Find(name) {
			list = append(list, located{&c.blocks[i], d})
		}
	}
	return list
}

func (c *corefileSource) properties(plugin, name string) (list []located) {
	for _, d := range c.find(plugin) {
		for _, property := range d.Find(name) {
			list = append(list, located{d.block, property})
		}
	}
	return list
}

// evidenceLine returns a line of the Corefile, or of a file that it imports, with its number.
func evidenceLine(file string, line int, text string) string {
	return fmt.Sprintf("%s:%d: %s", cmp.Or(file, "Corefile"), line, text)
}

func (l located) evidence() string { return evidenceLine(l.File, l.Line, l.String()) }

// zonesOf returns the zones of the plugin kubernetes: its arguments, or those of its block.
func zonesOf(k located) []string {
	if len(k.Args) == 0 {
		return k.block.Zones()
	}
	var zones []string
	for _, a := range k.Args {
		zones = append(zones, strings.ToLower(strings.TrimSuffix(a, "."))+".")
	}
	return zones
}

func (c *corefileSource) kubernetesZones() (zones []string) {
	for _, k := range c.find("kubernetes") {
		zones = append(zones, zonesOf(k)...)
	}
	return zones
}

func blockLine(b corefile.Block) string {
	return evidenceLine(b.File, b.Line, strings.Join(b.Keys, " ")+" {")
}
