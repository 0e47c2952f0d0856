// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeyPair is a certificate and its key in two files, which are read again when they
// change. They are looked at when somebody asks, at handshakes and for readiness: there
// is no watch that bind mounts, renamed files and swapped links could get past. While
// the two do not fit each other, as between the writing of one and of the other, the
// pair before is served.
type KeyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	served *tls.Certificate
	cert   os.FileInfo // when it was last read; nil: it was not there
	key    os.FileInfo
	err    error // why the files are not what is served
}

// NewKeyPair reads the two files. Whoever starts with bad ones should end.
func NewKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &KeyPair{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := p.Current(); err != nil {
		return nil, err
	}
	return p, nil
}

// Current returns the certificate that is served, and why it is not that of the files,
// or not valid now.
func (p *KeyPair) Current() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked()
	if p.served == nil || p.err != nil {
		return p.served, p.err
	}
	switch now, leaf := time.Now(), p.served.Leaf; {
	case now.After(leaf.NotAfter):
		return p.served, fmt.Errorf("the certificate of %s has expired on %v", p.certFile, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return p.served, fmt.Errorf("the certificate of %s is valid from %v on", p.certFile, leaf.NotBefore)
	}
	return p.served, nil
}

// lookLocked reads the files again if they have changed.
func (p *KeyPair) lookLocked() {
	cert, key := stat(p.certFile), stat(p.keyFile) // before they are read: what comes later is news
	if p.served != nil && same(cert, p.cert) && same(key, p.key) {
		return
	}
	c, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	p.cert, p.key, p.err = cert, key, err
	if err != nil {
		p.err = fmt.Errorf("reading %s and %s: %w", p.certFile, p.keyFile, err)
		if p.served != nil {
			p.log.Warn("the certificate cannot be read, the one before is served", "error", p.err)
		}
		return
	}
	if p.served != nil {
		p.log.Info("another certificate is served", "names", c.Leaf.DNSNames, "until", c.Leaf.NotAfter)
	}
	p.served = &c
}

// stat returns what can be seen of a file without reading it; nil: nothing.
func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// same tells whether a file has not changed. A renamed one may be as old and as long.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
