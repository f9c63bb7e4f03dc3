select auction, bidder, price, channel, url, date_time, extra, place
from (
    select b.*, row_number() over (partition by auction order by price desc, id) as place
    from bid b
) q
where place <= 10
