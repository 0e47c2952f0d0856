// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

func readDNS(f *config.Files, path string) (v1alpha1.DNSConfiguration, error) {
	return config.ReadAs(f, path, v1alpha1.ParseDNS, func(c v1alpha1.DNSConfiguration) error {
		_, err := newDNSSettings(c, nil)
		return err
	})
}

func readNodeCache(f *config.Files, path string) (v1alpha1.NodeCacheConfiguration, error) {
	return config.ReadAs(f, path, v1alpha1.ParseNodeCache, func(c v1alpha1.NodeCacheConfiguration) error {
		_, err := newNodeCacheSettings(c, nil)
		return err
	})
}

// readWebhook reads a WebhookConfiguration. Relative paths count as in config.ReadShim.
func readWebhook(f *config.Files, path string) (v1alpha1.WebhookConfiguration, error) {
	c, err := config.ReadAs(f, path, v1alpha1.ParseWebhook, func(c v1alpha1.WebhookConfiguration) error {
		_, err := newWebhookSettings(c, nil)
		return err
	})
	if err == nil {
		config.ResolveNodePaths(path, &c.Node)
	}
	return c, err
}
