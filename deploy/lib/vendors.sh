# Generated from gcushare.vendors: make vendors.
# shellcheck shell=bash disable=SC2034
VENDORS=(enflame aliyun)
DEFAULT_VENDOR=enflame
declare -A NODE_LABEL=([enflame]=enflame.com/gcushare [aliyun]=gpushare)
declare -A DEVICE_WORD=([enflame]=GCU [aliyun]=GPU)
declare -A URL_PREFIX=([enflame]=/gcushare-scheduler [aliyun]=/gpushare-scheduler)
