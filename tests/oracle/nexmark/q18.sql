select auction, bidder, price, channel, url, date_time, extra
from (
    select b.*, row_number() over (partition by bidder, auction order by date_time desc, id) as place
    from bid b
) q
where place <= 1
