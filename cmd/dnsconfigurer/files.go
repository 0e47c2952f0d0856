// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// files reads configuration files and remembers what was in them. The zero value is
// ready for use, by one goroutine.
type files struct {
	seen map[string]digest // by path
}

// digest tells one text from another. That of a file that cannot be read is of the
// reason.
type digest [sha256.Size]byte

func readDigest(path string) ([]byte, digest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, sha256.Sum256([]byte("\x00" + err.Error())), err
	}
	return data, sha256.Sum256(data), nil
}

func (f *files) read(path string) ([]byte, error) {
	data, d, err := readDigest(path)
	if f.seen == nil {
		f.seen = map[string]digest{}
	}
	f.seen[path] = d
	return data, err
}

// now returns what is in the files that were read. What is no file, as a pipe, is read
// once only.
func (f *files) now() map[string]digest {
	now := maps.Clone(f.seen)
	for path := range now {
		if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
			_, now[path], _ = readDigest(path)
		}
	}
	return now
}

// forget begins anew.
func (f *files) forget() { clear(f.seen) }

// readAs reads a configuration and checks what the decoder lets pass: that texts are
// values of their field. Without a file it is empty.
func readAs[T any](f *files, path string, parse func([]byte) (T, error), check func(T) error) (c T, err error) {
	if path == "" {
		return c, nil
	}
	data, err := f.read(path)
	if err != nil {
		return c, fmt.Errorf("reading the configuration: %w", err)
	}
	if c, err = parse(data); err == nil {
		err = check(c)
	}
	if err != nil {
		return c, within(path, err)
	}
	return c, nil
}

func (f *files) readDNS(path string) (v1alpha1.DNSConfiguration, error) {
	return readAs(f, path, v1alpha1.ParseDNS, func(c v1alpha1.DNSConfiguration) error {
		_, err := newDNSSettings(c, nil)
		return err
	})
}

func (f *files) readNodeCache(path string) (v1alpha1.NodeCacheConfiguration, error) {
	return readAs(f, path, v1alpha1.ParseNodeCache, func(c v1alpha1.NodeCacheConfiguration) error {
		_, err := newNodeCacheSettings(c, nil)
		return err
	})
}

// readShim reads a ShimConfiguration. As in the kubelet's file, relative paths to other
// files about the node count from its own directory.
func (f *files) readShim(path string) (v1alpha1.ShimConfiguration, error) {
	c, err := readAs(f, path, v1alpha1.ParseShim, checkValues)
	if err == nil {
		allBesides(path, &c.Node)
	}
	return c, err
}

// readWebhook reads a WebhookConfiguration. Relative paths count as in readShim.
func (f *files) readWebhook(path string) (v1alpha1.WebhookConfiguration, error) {
	c, err := readAs(f, path, v1alpha1.ParseWebhook, func(c v1alpha1.WebhookConfiguration) error {
		_, err := newWebhookSettings(c, nil)
		return err
	})
	if err == nil {
		allBesides(path, &c.Node)
	}
	return c, err
}

// allBesides resolves the paths in c from the directory of file.
func allBesides(file string, c *v1alpha1.NodeConfiguration) {
	c.KubeletConfig = besides(file, c.KubeletConfig)
	c.UplinkResolvConf = besides(file, c.UplinkResolvConf)
	if c.ResolvConf != nil {
		*c.ResolvConf = besides(file, *c.ResolvConf)
	}
}
