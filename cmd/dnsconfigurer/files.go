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

// readDNS reads a DNSConfiguration and checks that texts are values of their field.
func (f *files) readDNS(path string) (v1alpha1.DNSConfiguration, error) {
	data, err := f.read(path)
	if err != nil {
		return v1alpha1.DNSConfiguration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := v1alpha1.ParseDNS(data)
	if err == nil {
		_, err = newDNSSettings(c, nil)
	}
	if err != nil {
		return c, within(path, err)
	}
	return c, nil
}

// readNodeCache reads a NodeCacheConfiguration and checks that texts are values of their
// field.
func (f *files) readNodeCache(path string) (v1alpha1.NodeCacheConfiguration, error) {
	data, err := f.read(path)
	if err != nil {
		return v1alpha1.NodeCacheConfiguration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := v1alpha1.ParseNodeCache(data)
	if err == nil {
		_, err = newNodeCacheSettings(c, nil)
	}
	if err != nil {
		return c, within(path, err)
	}
	return c, nil
}

// readConfig reads a ShimConfiguration. As in the kubelet's file, relative paths to
// other files about the node count from its own directory.
func (f *files) readConfig(path string) (v1alpha1.ShimConfiguration, error) {
	data, err := f.read(path)
	if err != nil {
		return v1alpha1.ShimConfiguration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := v1alpha1.ParseShim(data)
	if err == nil {
		err = checkValues(c)
	}
	if err != nil {
		return c, within(path, err)
	}
	allBesides(path, &c.Node)
	return c, nil
}

// readWebhook reads a WebhookConfiguration and checks that texts are values of their
// field. Relative paths count as in readConfig.
func (f *files) readWebhook(path string) (v1alpha1.WebhookConfiguration, error) {
	data, err := f.read(path)
	if err != nil {
		return v1alpha1.WebhookConfiguration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := v1alpha1.ParseWebhook(data)
	if err == nil {
		_, err = newWebhookSettings(c, nil)
	}
	if err != nil {
		return c, within(path, err)
	}
	allBesides(path, &c.Node)
	return c, nil
}

// allBesides resolves the paths in c from the directory of file.
func allBesides(file string, c *v1alpha1.NodeConfiguration) {
	c.KubeletConfig = besides(file, c.KubeletConfig)
	c.UplinkResolvConf = besides(file, c.UplinkResolvConf)
	if c.ResolvConf != nil {
		*c.ResolvConf = besides(file, *c.ResolvConf)
	}
}
