#!/bin/sh
# What `freehold reproduce app-live` runs, on Debian, as root. None of it is part of Freehold.
set -e
apt-get update -qq
apt-get install -y --no-install-recommends r-cran-ranger r-cran-mlbench python3-opencv opencv-data mplayer ffmpeg \
  default-jdk-headless maven gcc libc6-dev
mvn -q dependency:get -Dartifact=org.graphchi:graphchi-java_2.11:0.2.2
